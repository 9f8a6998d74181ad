//go:build !race

package main

const raceBuild = false

const slowness = 1
