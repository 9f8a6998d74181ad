package handlers

import (
	"net/http"
)

// getHealth says that the process serves.
//
//	@ID				getHealth
//	@Summary		Liveness
//	@Description	200 as long as the process serves; it says nothing about whether requests succeed.
//	@Tags			cluster
//	@Success		200	{object}	schema.Health	"It serves."
//	@Router			/healthz [get]
func (a *api) getHealth(w http.ResponseWriter, r *http.Request) error {
	return answerJSON(w, r, http.StatusOK, health{"ok"})
}

type health struct {
	Status string `json:"status"`
}

// getReady says whether this broker takes its part of the work.
//
//	@ID				getReady
//	@Summary		Readiness
//	@Description	200 when this broker is registered, un-fenced and its logs are recovered; else 503 with the reason. A broker that shuts down is not ready.
//	@Tags			cluster
//	@Success		200	{object}	schema.Health	"Ready."
//	@x-errors		[50305]
//	@Router			/readyz [get]
func (a *api) getReady(w http.ResponseWriter, r *http.Request) error {
	if a.draining() {
		return errDraining
	}
	if a.cfg.Ready != nil {
		if err := a.cfg.Ready(); err != nil {
			return &requestError{code: codeShuttingDown, detail: "This broker is not ready: " + err.Error() + ".", fix: "Ask again after a pause."}
		}
	}
	return answerJSON(w, r, http.StatusOK, health{"ready"})
}
