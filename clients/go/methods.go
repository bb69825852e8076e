package leafseal

import (
	"context"
	"slices"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// callOptions are the options of a method.
type callOptions interface {
	common() (app string, timeout time.Duration, onReport func(Report))
	options() []option
}

// option is an option as it is sent: a string, a bool or strings.
type option struct {
	name, field              string
	value                    any
	isOfDocuments, isOfFiles bool
}

// content is what a method works on, which decides the options that it has.
type content int

const (
	ofValues content = iota
	ofDocuments
	ofFiles
)

func (c *Client) encoder(method string, hasDeadline bool) *encoder {
	return newEncoder(method, c.settings.RequestSizeMax, hasDeadline)
}

func (c *Client) app(name string) (string, error) {
	if name == "" {
		name = c.settings.App
	}
	if name == "" {
		return "", invalidArgument("App: set it in the options of the call or of the client")
	}
	return name, nil
}

func notNil(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

// encoderOf writes the options. One that the method does not have is refused if it is set.
func (c *Client) encoderOf(method string, options callOptions, of content) (*encoder, error) {
	name, _, _ := options.common()
	app, err := c.app(name)
	if err != nil {
		return nil, err
	}
	encoder := c.encoder(method, true).required("app", app)
	for _, option := range options.options() {
		if !encoder.option(option) {
			continue
		}
		if option.isOfDocuments && of != ofDocuments {
			return nil, invalidArgument("%s is for documents", option.name)
		}
		if !option.isOfFiles && of == ofFiles {
			return nil, invalidArgument("%s is not for files", option.name)
		}
	}
	return encoder, nil
}

// list processes values, which may have a context each.
func (c *Client) list(ctx context.Context, method string, values []any, contexts []string, options callOptions) ([]any, error) {
	encoder, err := c.encoderOf(method, options, ofValues)
	if err != nil {
		return nil, err
	}
	encoder.texts("contexts", contexts)
	_, timeout, onReport := options.common()
	var results []any
	err = c.do(ctx, func() (*request, error) { return encoder.values(values) }, timeout, func(result []byte) *Error {
		found, report, failure := readValues(result, len(values), readScalar)
		if failure == nil && onReport != nil {
			onReport(report)
		}
		results = found
		return failure
	})
	return results, err
}

func (c *Client) document(ctx context.Context, method string, json []byte, options callOptions) ([]byte, error) {
	encoder, err := c.encoderOf(method, options, ofDocuments)
	if err != nil {
		return nil, err
	}
	_, timeout, onReport := options.common()
	return c.content(ctx, encoder, "document", json, timeout, onReport)
}

func (c *Client) file(ctx context.Context, method string, data []byte, options callOptions) ([]byte, error) {
	encoder, err := c.encoderOf(method, options, ofFiles)
	if err != nil {
		return nil, err
	}
	_, timeout, onReport := options.common()
	if onReport != nil {
		return nil, invalidArgument("OnReport is not for files")
	}
	return c.content(ctx, encoder, "data", data, timeout, nil)
}

func (c *Client) content(ctx context.Context, encoder *encoder, field string, bytes []byte, timeout time.Duration, onReport func(Report)) ([]byte, error) {
	var content []byte
	err := c.do(ctx, func() (*request, error) { return encoder.bytes(field, bytes) }, timeout, func(result []byte) *Error {
		report, failure := readResult(result, func(name string, value []byte) ([]byte, bool, *Error) {
			if name != field {
				return nil, false, nil
			}
			found, rest, err := msgp.ReadBytesBytes(value, nil)
			if err != nil {
				return nil, false, unreadable()
			}
			content = found
			if content == nil {
				content = []byte{}
			}
			return rest, true, nil
		})
		if failure == nil && content == nil {
			failure = unreadable()
		}
		if failure == nil && onReport != nil {
			onReport(report)
		}
		return failure
	})
	if err != nil {
		clear(content)
		return nil, err
	}
	return content, nil
}

// do makes a call and reads its result. The bytes that were sent and received are wiped, whether it succeeds or not.
func (c *Client) do(ctx context.Context, encode func() (*request, error), timeout time.Duration, read func(result []byte) *Error) error {
	request, err := encode()
	if err != nil {
		return err
	}
	defer request.close()
	response, err := c.call(ctx, request, timeout)
	if err != nil {
		return err
	}
	defer clear(response.frame)
	if failure := read(response.result); failure != nil {
		return failure
	}
	return nil
}

func readValues[T any](result []byte, expected int, element func([]byte) (T, []byte, *Error)) ([]T, Report, *Error) {
	var values []T
	report, failure := readResult(result, func(name string, value []byte) ([]byte, bool, *Error) {
		if name != "values" {
			return nil, false, nil
		}
		list, rest, failure := readList(value, expected, element)
		values = list
		return rest, true, failure
	})
	if failure == nil && values == nil {
		failure = unreadable()
	}
	return values, report, failure
}

// readResult reads a result: own takes its fields and returns what follows them, the others are the report's.
func readResult(result []byte, own func(name string, value []byte) ([]byte, bool, *Error)) (Report, *Error) {
	var report Report
	_, failure := readMap(result, func(name string, value []byte) ([]byte, *Error) {
		if rest, isTaken, failure := own(name, value); isTaken || failure != nil {
			return rest, failure
		}
		counts := map[string]*int64{"count": &report.Count, "resealed": &report.Resealed, "skipped": &report.Skipped, "rewrapped": &report.Rewrapped, "symmetric": &report.Symmetric, "failed": &report.Failed}
		if count := counts[name]; count != nil {
			number, rest, failure := readNumber(value)
			*count = number
			return rest, failure
		}
		switch name {
		case "matched":
			matched, rest, failure := readList(value, -1, readNumber)
			report.Matched = matched
			return rest, failure
		case "failures":
			failures, rest, failure := readList(value, -1, readScalar)
			for _, position := range failures {
				switch position := position.(type) {
				case int64:
					report.FailedIndexes = append(report.FailedIndexes, position)
				case string:
					report.FailedPaths = append(report.FailedPaths, position)
				}
			}
			return rest, failure
		}
		return skip(value)
	})
	return report, failure
}

// query makes a call without values of users.
func query[T any](ctx context.Context, c *Client, encoder *encoder, read func([]byte) (T, []byte, *Error)) (T, error) {
	var found T
	err := c.do(ctx, encoder.done, 0, func(result []byte) (failure *Error) {
		found, _, failure = read(result)
		return failure
	})
	return found, err
}

// readRecord reads a map: member reads the fields that it knows and returns what follows them. Fields that are required must be there.
func readRecord(from []byte, required []string, member func(name string, value []byte) ([]byte, *Error)) ([]byte, *Error) {
	missing := slices.Clone(required)
	rest, failure := readMap(from, func(name string, value []byte) ([]byte, *Error) {
		if msgp.IsNil(value) {
			return value[1:], nil
		}
		after, failure := member(name, value)
		if failure != nil {
			return nil, failure
		}
		if after == nil {
			return skip(value)
		}
		missing = slices.DeleteFunc(missing, func(field string) bool { return field == name })
		return after, nil
	})
	if failure == nil && len(missing) > 0 {
		failure = unreadable()
	}
	return rest, failure
}

// readFacts reads texts by name; those of other kinds are of a newer engine.
func readFacts(from []byte) (map[string]string, []byte, *Error) {
	facts := map[string]string{}
	rest, failure := readMap(from, func(name string, value []byte) (after []byte, failure *Error) {
		if msgp.NextType(value) != msgp.StrType {
			return skip(value)
		}
		facts[name], after, failure = readText(value)
		return after, failure
	})
	return facts, rest, failure
}

func readFlag(from []byte) (bool, []byte, *Error) {
	flag, rest, err := msgp.ReadBoolBytes(from)
	if err != nil {
		return false, nil, unreadable()
	}
	return flag, rest, nil
}

func readBytes(from []byte) ([]byte, []byte, *Error) {
	bytes, rest, err := msgp.ReadBytesBytes(from, nil)
	if err != nil {
		return nil, nil, unreadable()
	}
	return bytes, rest, nil
}

// readTime reads Unix seconds.
func readTime(from []byte) (time.Time, []byte, *Error) {
	seconds, rest, failure := readNumber(from)
	if failure != nil {
		return time.Time{}, nil, failure
	}
	return time.Unix(seconds, 0), rest, nil
}
