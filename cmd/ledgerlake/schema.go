package main

import (
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// readSchema reads payload columns from a file that holds a Delta schema (the JSON of schemaString).
func readSchema(path string) (*arrow.Schema, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	st, err := deltalog.ParseSchema(string(raw))
	if err != nil {
		return nil, fmt.Errorf("read schema %s: %w", path, err)
	}
	return deltalog.ToArrow(st)
}
