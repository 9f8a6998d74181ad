package schema

// OpenAPI is an OpenAPI document.
type OpenAPI struct {
	OpenAPI string         `json:"openapi" validate:"required" example:"3.0.3"`
	Info    map[string]any `json:"info" validate:"required"`
	Paths   map[string]any `json:"paths" validate:"required"`
}

// ProblemType is what an error's `type` stands for.
type ProblemType struct {
	Type       string `json:"type" validate:"required" example:"/problems/unknown-topic"`
	Title      string `json:"title" validate:"required"`
	Status     int32  `json:"status" validate:"required"`
	ErrorCode  int32  `json:"error_code" validate:"required"`
	KafkaError string `json:"kafka_error" validate:"required"`
	Retriable  bool   `json:"retriable" validate:"required"`
	About      string `json:"about" validate:"required"`
}
