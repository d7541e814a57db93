//go:build !linux

package bench

import "os"

// dropCache does nothing: only Linux counts what the cache holds in this way.
func dropCache(*os.File) error { return nil }

func settle() {}
