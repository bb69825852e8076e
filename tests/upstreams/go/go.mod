module leafseal.test/upstream

go 1.19
