package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A person makes a topic, produces into it, reads it, follows it and deletes it:
// all by the console, behind a path prefix.
func TestConsole(t *testing.T) {
	b := startBroker(t)
	p := openTab(t, b.behindPrefix("/hw"))
	p.goTo("/console/")
	p.has("No topics yet")
	p.shoot("console-empty")

	p.clickText("button", "Create the first topic")
	p.fill("dialog input[maxlength]", "orders")
	p.fill("dialog input[type=number]", "3")
	p.fill("dialog textarea", "retention.ms=86400000")
	p.shoot("console-create")
	p.clickText("dialog button", "Create")
	p.has("Delete topic")
	p.has("1 d") // the retention

	p.clickText(".tabs a", "Produce")
	p.fill("form input", "customer-7")
	p.fill("form textarea", `{"id":9007199254740993,"price":1.0,"tags":["a",null]}`)
	p.clickText("button", "+ header")
	p.fill(`input[aria-label="Header 1 name"]`, "trace")
	p.fill(`input[aria-label="Header 1 value"]`, "abc-é")
	p.clickText("form button.primary", "Produce")
	p.has("Written to partition")
	p.has("(fsynced)")
	p.shoot("console-produce")

	p.click(".done a")
	p.wait(`document.querySelector(".records .key")?.innerText === "customer-7"`)
	p.click(".records button.turn")
	p.has(`"id": 9007199254740993,`)
	p.has(`"price": 1.0,`)
	p.has("abc-é")
	p.shoot("console-record")

	p.has("Message ids")
	p.has("0 came again")
	p.clickText(".tabs a", "Partitions")
	p.wait(`document.querySelectorAll("main tbody tr").length === 3`)
	p.shoot("console-partitions")
	p.fill("form input[type=number]", "5")
	p.clickText("form button", "Add")
	p.wait(`document.querySelectorAll("main tbody tr").length === 5`)

	p.clickText(".tabs a", "Configs")
	p.click(`button[aria-label="Change min.insync.replicas"]`)
	p.fill("dialog input", "7")
	p.clickText("dialog button", "Save")
	p.wait(`document.querySelector("dialog .problem")`)
	p.forgive()
	p.fill("dialog input", "1")
	p.clickText("dialog button", "Save")
	p.wait(`!document.querySelector("dialog")`)
	p.shoot("console-configs")

	p.clickText("header a", "Cluster")
	p.has("Controller")
	p.shoot("console-cluster")

	p.clickText("header a", "Topics")
	p.wait(`document.querySelector("main tbody td:nth-child(3)")?.innerText === "1"`)
	p.clickText("main td a", "orders")
	p.clickText("button", "Delete topic")
	if !eval[bool](p, `document.querySelector("dialog button.danger").disabled`) {
		t.Error("a topic can be deleted without its name typed")
	}
	p.fill("dialog input", "orders")
	p.clickText("dialog button", "Delete for good")
	p.has("No topics yet")
}

// The live page shows each record once, as it is written, over a broker's whole
// topic and after a pause.
func TestConsoleLive(t *testing.T) {
	b := startBroker(t)
	b.do("PUT", "/topics/live", "application/json", `{"partitions":2}`)
	b.do("POST", "/topics/live", "application/json", `{"records":[{"value":"old"}]}`)
	p := openTab(t, b.url)
	p.goTo("/console/#/topics/live/live")
	p.has("Following")
	for i := range 30 {
		b.do("POST", fmt.Sprintf("/topics/live/partitions/%d", i%2), "application/json", fmt.Sprintf(`{"records":[{"key":"k%d","value":%d}]}`, i, 9007199254740993+i))
	}
	p.has("30 seen")
	values := eval[[]string](p, `[...document.querySelectorAll(".records .value")].map((e) => e.innerText)`)
	if len(values) != 30 || strings.Contains(strings.Join(values, " "), "old") {
		t.Errorf("shown: %q", values)
	}
	seen := map[string]bool{}
	for _, v := range values {
		seen[v] = true
	}
	for i := range 30 {
		if want := fmt.Sprint(9007199254740993 + i); !seen[want] {
			t.Errorf("%s is not shown", want)
		}
	}
	p.shoot("console-live")
	p.clickText("button", "Pause")
	p.has("Paused")
	b.do("POST", "/topics/live", "application/json", `{"records":[{"value":"while paused"}]}`)
	p.clickText("button", "Go on from now")
	p.has("Following")
	b.do("POST", "/topics/live", "application/json", `{"records":[{"value":"after"}]}`)
	p.has("after")
	if strings.Contains(p.text("main"), "while paused") {
		t.Error("a record of the pause is shown")
	}
}

// Paging goes back and forth over a partition by offset, and by time.
func TestConsoleBrowse(t *testing.T) {
	b := startBroker(t)
	b.do("PUT", "/topics/many", "", "")
	var lines strings.Builder
	for i := range 130 {
		fmt.Fprintf(&lines, `{"key":"k","value":{"n":%d},"timestamp":%d}`+"\n", i, 1764424000000+int64(i)*1000)
	}
	b.do("POST", "/topics/many?acks=-1", "application/x-ndjson", lines.String())
	p := openTab(t, b.url)
	first := func(want string) {
		t.Helper()
		p.wait(`document.querySelector(".records .offset")?.innerText === ` + quote(want))
	}
	p.goTo("/console/#/topics/many")
	first("80")
	p.clickText(".pages button", "Older")
	first("30")
	p.clickText(".pages button", "Older")
	first("0")
	p.clickText(".pages button", "Newer")
	first("50")
	p.clickText(".pages button", "Newest")
	first("80")
	p.shoot("console-records")
	p.goTo("/console/#/topics/many/records?partition=0&count=25&timestamp=1764424100000")
	first("100")
	p.goTo("/console/#/topics/many/records?partition=0&offset=9999")
	p.wait(`document.querySelector(".problem")?.innerText.includes("above the end")`)
	p.forgive()
}

// Integers past 2^53 and other spellings are shown as they were sent.
func TestH01_NumbersAreShownExactly(t *testing.T) {
	b := startBroker(t)
	b.do("PUT", "/topics/t1", "", "")
	values := []string{"9007199254740993", "-9223372036854775808", "18446744073709551615", `{"id":123456789012345678901234567890}`, "1.0", "1e400", "-0", "0.30000000000000004"}
	for _, v := range values {
		b.do("POST", "/topics/t1?acks=-1", "application/json", `{"records":[{"value":`+v+`}]}`)
	}
	p := openTab(t, b.url)
	p.goTo("/console/#/topics/t1/records?partition=0&offset=0")
	p.wait(fmt.Sprintf(`document.querySelectorAll(".records .value").length === %d`, len(values)))
	for i, got := range eval[[]string](p, `[...document.querySelectorAll(".records .value")].map((e) => e.innerText)`) {
		if got != values[i] {
			t.Errorf("value %s is shown as %s", values[i], got)
		}
	}
}

// What a record holds is shown as text, wherever it stands, and runs nowhere.
func TestH55_ScriptInARecord(t *testing.T) {
	payloads := []string{`"><img src=x onerror=alert(1)>`, `</script><script>alert(1)</script>`, `<svg/onload=alert(2)>`, `{{constructor.constructor('alert(3)')()}}`, `javascript:alert(4)`}
	b := startBroker(t)
	b.do("PUT", "/topics/evil", "", "")
	for _, s := range payloads {
		b.do("POST", "/topics/evil?acks=-1", "application/json", fmt.Sprintf(
			`{"records":[{"key":%[1]s,"value":%[1]s,"headers":[{"key":%[1]s,"value":"PHN2Zy9vbmxvYWQ9YWxlcnQoNSk+"}],"id":%[1]s},{"key":"__proto__","value":{%[1]s:%[1]s,"__proto__":{"x":1}}},{"value":%[1]s,"value_encoding":"text"}]}`, quote(s)))
	}
	p := openTab(t, b.url)
	p.goTo("/console/#/topics/evil/records?partition=0&offset=0")
	p.wait(fmt.Sprintf(`document.querySelectorAll(".records .value").length === %d`, 3*len(payloads)))
	eval[bool](p, `document.querySelectorAll(".records button.turn").forEach((b) => b.click()), true`)
	p.wait(fmt.Sprintf(`document.querySelectorAll(".detail").length === %d`, 3*len(payloads)))
	text := p.text("main")
	for _, s := range payloads {
		if strings.Count(text, s) < 6 { // value and key twice each, header, id, text
			t.Errorf("%s is shown %d times", s, strings.Count(text, s))
		}
		if !strings.Contains(text, quote(s)+": "+quote(s)) {
			t.Errorf("%s as a member is not shown as it is", s)
		}
	}
	p.shoot("console-script")

	// In places that take what the address says: topic name, offset, tab, filter.
	for _, s := range payloads {
		hash := url.PathEscape(s)
		p.goTo("/console/#/topics/" + hash)
		p.wait(`document.querySelector(".problem")`)
		p.goTo("/console/#/" + hash)
		p.has("Nothing here")
		p.goTo("/console/#/topics/evil/records?offset=" + url.QueryEscape(s))
		p.wait(`document.querySelector(".problem")`)
	}
	p.forgive()

	// Live, too, and in what a refused produce says.
	p.goTo("/console/#/topics/evil/live")
	p.has("Following")
	b.do("POST", "/topics/evil?acks=-1", "application/json", `{"records":[{"key":`+quote(payloads[0])+`,"value":`+quote(payloads[1])+`}]}`)
	p.has("1 seen")
	p.goTo("/console/#/topics/evil/produce")
	p.fill("form textarea", payloads[0])
	p.clickText("form button.primary", "Produce")
	p.has("The value is not JSON")

	if n := eval[int](p, `document.querySelectorAll("main img, main svg, main script, main iframe").length`); n != 0 {
		t.Errorf("%d elements were made of a record", n)
	}
}

// A group's members, commits and lag, as text whatever a client has put into them (H55).
func TestConsoleGroups(t *testing.T) {
	b := startBroker(t)
	p := openTab(t, b.url)
	p.goTo("/console/#/groups")
	p.has("No groups yet")
	b.do("PUT", "/topics/orders", "application/json", `{"partitions":2}`)
	b.do("POST", "/topics/orders/partitions/0?acks=-1", "application/json", `{"records":[{"value":1},{"value":2},{"value":3}]}`)
	const evil = `"><img src=x onerror=alert(1)></script><script>alert(1)</script>`
	b.do("POST", "/consumers/billing", "application/json", `{"name":"c1"}`)
	b.do("POST", "/consumers/billing/instances/c1/subscription", "application/json", `{"topic_pattern":"orders|<img src=x onerror=alert\\(1\\)>"}`)
	b.do("GET", "/consumers/billing/instances/c1/records?count=1", "", "")
	b.do("POST", "/consumers/billing/instances/c1/offsets", "application/json", `{"offsets":[{"topic":"orders","partition":0,"offset":1,"metadata":`+quote(evil)+`}]}`)
	p.has("billing")
	p.shoot("console-groups")
	p.clickText("main td a", "billing")
	p.has(evil)
	p.has("onerror=alert")
	p.has("orders-0, orders-1")
	p.wait(`[...document.querySelectorAll("main table:last-of-type td.num")].some((e) => e.innerText === "2")`)
	p.shoot("console-group")
	if n := eval[int](p, `document.querySelectorAll("main img, main svg, main script, main iframe").length`); n != 0 {
		t.Errorf("%d elements were made of a group", n)
	}
	if strings.Contains(p.text("main"), "unknown") {
		t.Errorf("a figure is missing: %s", p.text("main"))
	}
}

// No page is wider than a phone, and each is there in the dark.
func TestConsoleOnAPhone(t *testing.T) {
	b := startBroker(t)
	b.do("PUT", "/topics/"+strings.Repeat("long-name.", 20), "application/json", `{"partitions":3}`)
	b.do("PUT", "/topics/orders", "application/json", `{"partitions":3}`)
	b.do("POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"key":"customer-4711","value":{"order":4711,"items":[{"sku":"A-1","qty":2}],"note":"`+strings.Repeat("long text ", 60)+`"}},{"value":null,"key":"gone"}]}`)
	b.do("GET", "/consumers/billing/records?member="+strings.Repeat("worker", 20)+"&topics=orders", "", "")
	b.do("POST", "/consumers/billing/offsets?member="+strings.Repeat("worker", 20), "", "")
	p := openTab(t, b.url, chromedp.Flag("blink-settings", "preferredColorScheme=0"))
	must(t, chromedp.Do(p.ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile)))
	for _, at := range []string{"", "#/topics/orders", "#/topics/orders/produce", "#/topics/orders/partitions", "#/topics/orders/configs", "#/topics/orders/live", "#/groups", "#/groups/billing", "#/cluster"} {
		p.goTo("/console/" + at)
		p.wait(`document.querySelector("main h1") && !document.querySelector("main").innerText.includes("Loading")`)
		if at == "#/topics/orders" {
			p.wait(`document.querySelector(".records .turn")`)
			p.click(".records .turn")
			p.wait(`document.querySelector(".detail")`)
		}
		p.shoot("phone-" + strings.ReplaceAll(strings.Trim(at, "#/"), "/", "-"))
		if wide := eval[int](p, "document.documentElement.scrollWidth"); wide > 390 {
			t.Errorf("%s is %d wide", at, wide)
		}
	}
}

// Everything is reached and worked by the keyboard.
func TestConsoleByKeyboard(t *testing.T) {
	b := startBroker(t)
	b.do("PUT", "/topics/keys", "", "")
	b.do("POST", "/topics/keys?acks=-1", "application/json", `{"records":[{"value":{"a":1}}]}`)
	p := openTab(t, b.url)
	p.goTo("/console/#/topics/keys")
	p.wait(`document.querySelector(".records .turn")`)
	reach := func(selector string) {
		t.Helper()
		for range 60 {
			must(t, chromedp.Do(p.ctx, chromedp.KeyEvent("\t")))
			if eval[bool](p, "!!document.activeElement?.matches("+quote(selector)+")") {
				return
			}
		}
		t.Fatalf("tab does not reach %s", selector)
	}
	reach(".skip")
	reach(".records .turn")
	must(t, chromedp.Do(p.ctx, chromedp.KeyEvent("\r")))
	p.wait(`document.querySelector(".turn[aria-expanded=true]") && document.querySelector(".detail pre").innerText.includes('"a": 1')`)
	p.goTo("/console/")
	p.wait(`document.querySelector("main tbody a")`)
	reach("button.primary")
	must(t, chromedp.Do(p.ctx, chromedp.KeyEvent("\r")))
	p.wait(`document.querySelector("dialog")?.open && document.activeElement.closest("dialog")`)
	must(t, chromedp.Do(p.ctx, chromedp.KeyEvent("\x1b")))
	p.wait(`!document.querySelector("dialog")`)
}
