module windlass.dev/pause

go 1.21
