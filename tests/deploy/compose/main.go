// Command compose-spec reads a Compose file as docker compose does, checks that everything that it refers to exists, and prints it as JSON.
//
//	compose-spec FILE
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func read(file string) ([]byte, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithInterpolation(true), cli.WithResolvedPaths(true),
		cli.WithNormalization(true), cli.WithConsistency(true))
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalJSON()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compose-spec FILE")
		os.Exit(2)
	}
	text, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "compose-spec:", err)
		os.Exit(1)
	}
	fmt.Println(string(text))
}
