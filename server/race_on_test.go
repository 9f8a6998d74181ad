//go:build race

package main

// raceBuild has the broker under test built with the race detector too.
const raceBuild = true

// slowness is what the race detector costs, of the times that brokers give each other.
const slowness = 2
