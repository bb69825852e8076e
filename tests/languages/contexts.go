// The Go client's part of test_contexts.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	leafseal "github.com/leafseal/leafseal/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := leafseal.Connect(ctx, leafseal.Settings{
		Addresses: os.Args[1:2], CA: leafseal.File(os.Args[2]), Certificate: leafseal.File(os.Args[3]), Key: leafseal.File(os.Args[4]), App: os.Args[5],
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		parts := strings.Split(lines.Text(), "\t")
		var contexts []string
		var values, results []any
		for at := 1; at < len(parts); at += 2 {
			contexts, values = append(contexts, parts[at]), append(values, parts[at+1])
		}
		if parts[0] == "encrypt" {
			results, err = client.EncryptAllBound(ctx, values, contexts, leafseal.EncryptOptions{Scheme: "symmetric"})
		} else {
			results, err = client.DecryptAllBound(ctx, values, contexts, leafseal.DecryptOptions{})
		}
		var failure *leafseal.Error
		if errors.As(err, &failure) {
			fmt.Printf("error\t%s\t%d\n", failure.Code, failure.Index)
			continue
		}
		fmt.Print("ok")
		for _, result := range results {
			fmt.Print("\t", result)
		}
		fmt.Println()
	}
}
