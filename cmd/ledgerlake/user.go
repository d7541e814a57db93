package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/internal/scram"
)

func newUser() *cobra.Command {
	return &cobra.Command{
		Use:   "user NAME",
		Short: "Print the lines of a user for the file of serve --kafka-users",
		Long: `user reads a password from standard input, one line, and prints the lines of a user for the file that
serve is given as --kafka-users: one for each SCRAM mechanism, salted, so that the file holds no password.`,
		Example: `  ledgerlake user ann < password.txt >> users && chmod 600 users`,
		Args:    named,
		RunE: func(cmd *cobra.Command, args []string) error {
			const most = 4 << 10
			line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), most)).ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the password: %w", err)
			}
			if len(line) == most {
				return fmt.Errorf("the password is longer than %d bytes", most)
			}
			lines, err := scram.Salted(args[0], string(trimNewline(line)))
			if err != nil {
				return fmt.Errorf("user %q: %w", args[0], err)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), lines)
			return err
		},
	}
}
