//go:build race

package storage

// raceDetector makes everything ten times slower, so long tests do less.
const raceDetector = true
