package leafseal

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block returns the first block of the README in this language.
func block(t *testing.T, page []byte, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```" + regexp.QuoteMeta(language) + "\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatalf("the README has no block %q", language)
	}
	return string(found[1])
}

// The steps of the README, in an empty module beside a copy of this one, laid out like its repository, against an engine.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	must(t, err)
	for _, fence := range regexp.MustCompile("(?m)^```(.+)$").FindAllSubmatch(page, -1) {
		if known := "console sh go main.go"; !strings.Contains(known, string(fence[1])) {
			t.Errorf("no test runs the block %q", fence[1])
		}
	}
	equal(t, "leafseal dev\n", block(t, page, "sh"))
	engine := startEngine(t)
	folder := t.TempDir()
	copied, app := filepath.Join(folder, "leafseal", "clients", "go"), filepath.Join(folder, "app")
	must(t, os.MkdirAll(copied, 0o700))
	must(t, os.MkdirAll(app, 0o700))
	files, err := filepath.Glob("*")
	must(t, err)
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.IsDir() || strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(copied, file), content, 0o600))
	}
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.Command(arguments[0], arguments[1:]...)
		command.Dir = app
		command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", arguments, err, output)
		}
		return string(output)
	}
	program := strings.ReplaceAll(block(t, page, "go main.go"), "127.0.0.1:3443", engine.address)
	must(t, os.WriteFile(filepath.Join(app, "main.go"), []byte(program), 0o600))
	must(t, os.Symlink(filepath.Join(engine.folder, "store"), filepath.Join(app, ".leafseal")))
	run("go", "mod", "init", "example.com/app")
	for _, line := range strings.Split(strings.TrimSpace(block(t, page, "console")), "\n") {
		run(strings.Fields(strings.TrimPrefix(line, "$ "))...)
	}
	expected := "4111111111111111\n{\"card\": {\"number\": \"4111111111111111\"}, \"amount\": 12.50}\n4111111111111111\n"
	run("go", "build", "-o", "example")
	equal(t, expected, run("./example"))
}
