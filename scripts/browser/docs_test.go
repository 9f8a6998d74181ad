package browser

import (
	"strings"
	"testing"
)

// expand opens an operation of Swagger UI and returns the selector of its block.
func (p *tab) expand(operation string) string {
	p.t.Helper()
	block := `[id$="-` + operation + `"].opblock`
	p.wait("document.querySelector(" + quote(block) + ")")
	p.click(block + " .opblock-summary-control")
	p.wait("document.querySelector(" + quote(block+" .execute") + ")")
	return block
}

// setParameter fills a parameter of an opened operation.
func (p *tab) setParameter(block, name, value string) {
	p.t.Helper()
	p.fill(block+` tr[data-param-name="`+name+`"] :is(input,select)`, value)
}

func (p *tab) execute(block, status string) string {
	p.t.Helper()
	p.click(block + " .execute")
	p.wait(`document.querySelector(` + quote(block+" .live-responses-table tr.response .response-col_status") + `)?.textContent.includes(` + quote(status) + `)`)
	return p.text(block + " .live-responses-table tr.response .response-col_description")
}

// Try it out produces and fetches, on another port and behind a path prefix, and
// no request leaves the broker; numbers beyond 2^53 are shown as they are.
func TestH59_TryItOut(t *testing.T) {
	b := startBroker(t)
	b.do("PUT", "/topics/orders", "", "")
	for name, root := range map[string]string{"direct": b.url, "behind a prefix": b.behindPrefix("/some/prefix"), "without the slash": b.url} {
		t.Run(name, func(t *testing.T) {
			p := openTab(t, root)
			path := "/docs/"
			if name == "without the slash" {
				path = "/docs"
			}
			p.goTo(path)
			p.has("Append records")
			p.shoot("docs-" + strings.ReplaceAll(name, " ", "-"))

			block := p.expand("produce")
			p.setParameter(block, "topic", "orders")
			p.setParameter(block, "acks", "-1")
			p.fill(block+" .body-param textarea", `{"records":[{"key":"k1","value":{"n":9007199254740993,"x":1.0}}]}`)
			if said := p.execute(block, "200"); !strings.Contains(said, `"base_offset"`) {
				t.Errorf("produce answered %q", said)
			}
			p.shoot("docs-produced")

			block = p.expand("fetch")
			p.setParameter(block, "topic", "orders")
			p.setParameter(block, "partition", "0")
			said := p.execute(block, "200")
			for _, want := range []string{`"key": "k1"`, `"n": 9007199254740993`, `"x": 1.0`} {
				if !strings.Contains(said, want) {
					t.Errorf("fetch does not show %s: %q", want, said)
				}
			}
			p.shoot("docs-fetched")
		})
	}
}
