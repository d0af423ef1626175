"""Runs beside one gateway to keep its files at the wanted commit."""
