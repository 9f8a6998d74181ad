package handlers

// idHeader is the record header in which a message id is stored. Clients see it
// as the member "id" and can't set a header of that name.
const idHeader = "highwater.id"
