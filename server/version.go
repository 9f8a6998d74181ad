package main

// version is the release, set by the linker (-ldflags "-X main.version=1.2.3").
// Nothing in the program writes it.
var version = "0.1.0-dev"
