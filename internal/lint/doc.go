// Package lint holds the house rules as go tests: which package may import which, what every package
// must document, how long a file may be, and a few more that a compiler cannot check.
//
// # Rules
//
//	import-direction  imports go down the layers of layers_test.go, never up and never sideways
//	vendor-sdk        each vendor's client library is imported by one folder
//	test-imports      code that is shipped imports no testing package
//	package-name      no package is named util, common, types, helpers, misc or base
//	package-doc       every package has one doc comment, attached to its package clause
//	file-size         no file is longer than 800 lines, tests excepted
//	func-size         no function is longer than 120 lines, tests excepted
//	no-sleep          no test sleeps, outside of test/
//	invariants        each of I1 to I8 is cited by a test
//	test-names        each test that a page names as proof exists
//	ascii             sources are ASCII
//	local-paths       no tracked file names a machine's path or a package registry's host
//
// Each finding names its rule, the place and the remedy. Every rule is a function from sources to
// findings, and has a test of its own that shows it the fault it is there for.
//
// # Exceptions
//
// An exception stands beside what it excuses, on the same line or the line above, with its reason:
//
//	//house:allow no-sleep: the kernel's clock is what is tested here
//
// For file-size it may stand anywhere in the file; for func-size on the line above the function or its
// doc comment's last line. An exception without a reason is a finding itself.
//
// The tests read the work tree and change nothing; they need git and the go command.
package lint
