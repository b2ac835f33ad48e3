module bed/pause

go 1.26.0
