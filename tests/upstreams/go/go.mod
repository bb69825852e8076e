module fieldseal.test/upstream

go 1.19
