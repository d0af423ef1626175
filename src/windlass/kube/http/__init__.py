"""HTTP/1.1 to one API server: connections, responses and transports."""
