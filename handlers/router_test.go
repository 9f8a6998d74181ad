package handlers

import (
	"net/http"
	"testing"
)

func TestUnknownPathIsAProblem(t *testing.T) {
	b := startBroker(t)
	b.get("/nope").problem(40404)
	b.get("/topics/nope/partitions/0/records").problem(40401)
	b.do(http.MethodDelete, "/healthz", nil).problem(40501)
}
