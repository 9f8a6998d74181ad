package schema

// OpenAPI is an OpenAPI document.
type OpenAPI struct {
	OpenAPI string         `json:"openapi" validate:"required" example:"3.0.3"`
	Info    map[string]any `json:"info" validate:"required"`
	Paths   map[string]any `json:"paths" validate:"required"`
}
