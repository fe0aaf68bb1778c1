//go:build !windows

// The clients dial named pipes of Windows, so main_windows.go contains the program.
package main

import "os"

func main() {
	os.Exit(2)
}
