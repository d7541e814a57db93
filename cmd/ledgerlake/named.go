package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// named checks the number of arguments by what the command's Use names: NAME, NAME... for one or more, and [NAME] for what may
// be left out. The error says what is missing, or too much, and shows how it is done.
func named(cmd *cobra.Command, args []string) error {
	names, needed, more := argumentsOf(cmd.Use)
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	switch {
	case len(args) < needed:
		verb := "is"
		if needed-len(args) > 1 {
			verb = "are"
		}
		return fmt.Errorf("%s: %s %s missing; for example: %s", path, strings.Join(names[len(args):needed], " and "), verb, exampleOf(cmd))
	case len(args) > len(names) && !more:
		return fmt.Errorf("%s takes %s, and %q is one too many; for example: %s", path, strings.Join(names, " and "), args[len(names)], exampleOf(cmd))
	}
	return nil
}

// argumentsOf gives the arguments of a Use, in order, how many of them have to be there, and whether the last may be there often.
func argumentsOf(use string) (names []string, needed int, more bool) {
	optional := false
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "--") {
			break // a flag, and its value
		}
		optional = optional || strings.HasPrefix(word, "[")
		name := strings.Trim(word, "[]")
		more = strings.HasSuffix(name, "...")
		names = append(names, strings.TrimSuffix(name, "..."))
		if !optional {
			needed++
		}
		optional = optional && !strings.HasSuffix(word, "]")
	}
	return names, needed, more
}

// exampleOf is the first example of a command, else how it is used.
func exampleOf(cmd *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	line, _, _ = strings.Cut(line, " #")
	return cmp.Or(strings.TrimSpace(line), cmd.UseLine())
}
