//go:build race

package main

// raceBuild has the broker under test built with the race detector too.
const raceBuild = true
