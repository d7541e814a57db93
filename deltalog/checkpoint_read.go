package deltalog

import (
	"context"
	"errors"

	"github.com/ledgerlake/ledgerlake/objstore"
)

func (s *state) applyCheckpoint(ctx context.Context, store objstore.Store, c *checkpoint, gated bool) error {
	return errors.New("checkpoints cannot be read yet")
}
