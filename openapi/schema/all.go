package schema

// All names, for swag, the schemas that no operation names directly: those of a
// media annotation and of errors. It is no route; the document drops its path.
//
//	@ID			schemas
//	@Summary	Schemas
//	@Success	200	{object}	Problem
//	@Success	201	{object}	ProduceRecord
//	@Success	202	{object}	DialectRecord
//	@Success	203	{object}	DialectProduceRequest
//	@Success	204	{object}	TopicConfigs
//	@Success	205	{object}	TopicConfig
//	@Success	206	{object}	CloudEvent
//	@Router		/-/schemas [get]
func All() {}
