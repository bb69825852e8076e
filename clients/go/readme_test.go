package leafseal

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The program of the README, against an engine.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	must(t, err)
	program := regexp.MustCompile("(?s)```go main.go\n(.*?)```").FindSubmatch(page)[1]
	engine := startEngine(t)
	// Inside the module, so that its import resolves; the folder's name keeps it out of packages.
	folder, err := os.MkdirTemp(".", "_readme")
	must(t, err)
	defer os.RemoveAll(folder)
	must(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(strings.ReplaceAll(string(program), "127.0.0.1:3443", engine.address)), 0o600))
	must(t, os.Symlink(filepath.Join(engine.folder, "store"), filepath.Join(engine.folder, ".leafseal")))
	binary := filepath.Join(engine.folder, "example")
	build, err := exec.Command("go", "build", "-o", binary, "./"+folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, build)
	}
	command := exec.Command(binary)
	command.Dir = engine.folder
	output, err := command.CombinedOutput()
	must(t, err)
	equal(t, "4111111111111111\n{\"card\": {\"number\": \"4111111111111111\"}, \"amount\": 12.50}\n", string(output))
}
