package handlers

import (
	"net/http"
)

// listPartitions describes a topic's partitions.
//
//	@ID				listPartitions
//	@Summary		List a topic's partitions
//	@Description	Each partition as its leader sees it: leader, in-sync replicas, and the ends of its log.
//	@Tags			topics
//	@Param			topic	path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Success		200	{array}	schema.Partition	"The partitions, in order."
//	@x-errors		[40401,42201,50302]
//	@Router			/topics/{topic}/partitions [get]
func (a *api) listPartitions(w http.ResponseWriter, r *http.Request) error {
	view, err := a.askedTopic(r)
	if err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, view.Partitions)
}

// getPartition describes one partition.
//
//	@ID				getPartition
//	@Summary		Describe a partition
//	@Description	The partition as its leader sees it: leader, in-sync replicas, and the ends of its log.
//	@Tags			topics
//	@Param			topic		path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition	path	int		true	"Partition number"	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Success		200	{object}	schema.Partition	"The partition."
//	@x-errors		[40401,40402,42201,50302]
//	@Router			/topics/{topic}/partitions/{partition} [get]
func (a *api) getPartition(w http.ResponseWriter, r *http.Request) error {
	topic, num, err := topicPartition(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	view, err := a.viewPartition(r, topic, num)
	if err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, view)
}
