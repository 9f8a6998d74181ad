package schema

// NewProducer is the body of POST /producers; it may be left out.
type NewProducer struct {
	// The name under which the producer comes back after a restart, at most 255 bytes; each time its former life is fenced. Absent or null: a producer without a past.
	TransactionalID *string `json:"transactional_id,omitempty" minLength:"1" maxLength:"255" extensions:"x-nullable" example:"orders-importer"`
}

// Producer is what an idempotent producer sends along with each batch.
type Producer struct {
	ProducerID int64 `json:"producer_id" validate:"required" format:"int64" minimum:"1" example:"1"`
	// Counts the lives of a transactional id; 0 without one.
	ProducerEpoch int32 `json:"producer_epoch" validate:"required" minimum:"0" maximum:"32767" example:"0"`
	// As it was sent.
	TransactionalID *string `json:"transactional_id,omitempty" example:"orders-importer"`
}
