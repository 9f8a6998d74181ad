package schema

// CloudEvent is an event in the JSON format of CloudEvents 1.0. Further members are
// extension attributes: their names are lower-case letters and digits, their values
// strings, booleans or integers of 32 bits. A null attribute is the same as none.
type CloudEvent struct {
	SpecVersion string `json:"specversion" validate:"required" enums:"1.0" example:"1.0"`
	// Tells the events of one source apart. source and id together have at most 1023 bytes.
	ID string `json:"id" validate:"required" minLength:"1" example:"4711"`
	// A URI-reference (RFC 3986).
	Source string `json:"source" validate:"required" minLength:"1" format:"uri-reference" example:"/shops/berlin"`
	// What kind of event it is.
	Type string `json:"type" validate:"required" minLength:"1" example:"com.example.order.placed"`
	// The record's key, unless there is a partitionkey.
	Subject *string `json:"subject,omitempty" minLength:"1" extensions:"x-nullable" example:"order-1"`
	// RFC 3339. The record's timestamp is the broker's time all the same.
	Time *string `json:"time,omitempty" format:"date-time" extensions:"x-nullable" example:"2026-01-31T12:00:00Z"`
	// A URI.
	DataSchema *string `json:"dataschema,omitempty" format:"uri" extensions:"x-nullable"`
	// The media type of the data; none means JSON.
	DataContentType *string `json:"datacontenttype,omitempty" extensions:"x-nullable" example:"application/json"`
	// The extension of that name: the record's key.
	PartitionKey *string `json:"partitionkey,omitempty" minLength:"1" extensions:"x-nullable"`
	// The data: any JSON where datacontenttype says so, else a string. Without data the record is a tombstone; null is a value.
	Data any `json:"data,omitempty" extensions:"x-nullable"`
	// The data's bytes as base64, instead of data.
	DataBase64 *string `json:"data_base64,omitempty" format:"byte" extensions:"x-nullable"`
}
