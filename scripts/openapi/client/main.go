// Command client produces and fetches through the Go client that oapi-codegen
// makes from the broker's OpenAPI document. check-openapi.sh generates
// client.gen.go beside it and runs it with the broker's URL.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := NewClientWithResponses(url)
	if err != nil {
		return err
	}
	const topic = "generated-client"
	partitions := int32(2)
	created, err := c.PutTopicWithResponse(ctx, topic, PutTopicJSONRequestBody{Partitions: &partitions})
	if err != nil {
		return err
	}
	if created.JSON201 == nil || len(created.JSON201.Partitions) != 2 {
		return fmt.Errorf("create: %s %s", created.Status(), created.Body)
	}
	var record ProduceRecord
	if err := record.Value.UnmarshalJSON([]byte(`{"id":9007199254740993}`)); err != nil {
		return err
	}
	one := int32(1)
	record.Partition = &one
	acks := ProduceParamsAcksMinus1
	produced, err := c.ProduceWithResponse(ctx, topic, &ProduceParams{Acks: &acks}, ProduceJSONRequestBody{Records: []ProduceRecord{record}})
	if err != nil {
		return err
	}
	if produced.JSON200 == nil || (*produced.JSON200.Offsets)[0].Offset != 0 {
		return fmt.Errorf("produce: %s %s", produced.Status(), produced.Body)
	}
	offset := "0"
	fetched, err := c.FetchWithResponse(ctx, topic, 1, &FetchParams{Offset: &offset})
	if err != nil {
		return err
	}
	if fetched.JSON200 == nil || len(*fetched.JSON200) != 1 {
		return fmt.Errorf("fetch: %s %s", fetched.Status(), fetched.Body)
	}
	value, err := (*fetched.JSON200)[0].Value.MarshalJSON()
	if err != nil {
		return err
	}
	if string(value) != `{"id":9007199254740993}` {
		return fmt.Errorf("fetched %s", value)
	}
	above := "99"
	refused, err := c.FetchWithResponse(ctx, topic, 1, &FetchParams{Offset: &above})
	if err != nil {
		return err
	}
	if refused.StatusCode() != http.StatusRequestedRangeNotSatisfiable || refused.ApplicationproblemJSON416 == nil || refused.ApplicationproblemJSON416.ErrorCode != 41601 {
		return fmt.Errorf("fetch above the end: %s %s", refused.Status(), refused.Body)
	}
	fmt.Println("a generated Go client created a topic, produced, fetched and read an error")
	return nil
}
