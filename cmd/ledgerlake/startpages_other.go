//go:build !linux

package main

// dropStartPages does something on Linux alone.
func dropStartPages() {}
