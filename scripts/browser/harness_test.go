// Package browser drives the broker's pages in headless Chromium: a real broker
// process behind a proxy that puts it under a path prefix, and a real browser. It
// is a module of its own, so that the broker's go.mod stays free of the driver.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// stepTimeout bounds one wait for something to show up on a page.
const stepTimeout = 30 * time.Second

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "highwater")
	build := exec.Command("go", "build", "-o", binary, "./server")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./server: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// binary is the broker under test; TestMain builds it.
var binary string

// broker is a broker process of one test.
type broker struct {
	t   *testing.T
	url string // without a slash at its end
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	cmd := exec.Command(binary, "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--log-format", "json")
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(log)
	b := &broker{t: t}
	for b.url == "" && lines.Scan() {
		var line struct{ Message, URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			b.url = line.URL
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-drained
		if err := cmd.Wait(); err != nil {
			t.Errorf("broker: %v", err)
		}
	})
	if b.url == "" {
		t.Fatal("the broker did not start to serve")
	}
	return b
}

// behindPrefix is the broker's URL behind a proxy that takes a path prefix off.
func (b *broker) behindPrefix(prefix string) string {
	to, err := url.Parse(b.url)
	must(b.t, err)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, prefix)
			r.Out.URL.RawPath = strings.TrimPrefix(r.In.URL.EscapedPath(), prefix)
		},
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", proxy)
	server := httptest.NewServer(mux)
	b.t.Cleanup(server.CloseClientConnections) // streams would keep Close waiting
	b.t.Cleanup(server.Close)
	return server.URL + prefix
}

// do sends a request and returns the body of its success.
func (b *broker) do(method, path, contentType, body string) string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	must(b.t, err)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(r)
	must(b.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(b.t, err)
	if resp.StatusCode >= 300 {
		b.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, data)
	}
	return string(data)
}

// tab is a page of the browser, and what went wrong on it.
type tab struct {
	t    *testing.T
	ctx  context.Context
	root string // all that the page may ask for

	mu       sync.Mutex // guards the rest
	outside  []string   // requests that left root
	messages []string   // errors, warnings and exceptions
	dialogs  []string   // alerts: a script ran
}

// chromium finds the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no chromium on this machine: apt-get install chromium")
	}
	t.Skip("no chromium on this machine: apt-get install chromium")
	return ""
}

// openTab starts a browser whose requests must all stay below root.
func openTab(t *testing.T, root string, options ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	path := chromium(t)
	allocator := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	allocator = append(allocator, options...)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), allocator...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, root: root}
	must(t, chromedp.Do(ctx))
	must(t, chromedp.Listen(ctx, p.heard))
	messages := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == "error" || m.Type == "warning" || m.Type == chromedp.ConsoleException {
				p.mu.Lock()
				p.messages = append(p.messages, string(m.Type)+": "+m.Text)
				p.mu.Unlock()
			}
		}
	})
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	must(t, err)
	t.Cleanup(func() {
		p.check()
		_ = chromedp.Cancel(ctx)
		reading.Wait()
	})
	return p
}

func (p *tab) heard(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u := e.Request.URL
		if !strings.HasPrefix(u, p.root+"/") && !strings.HasPrefix(u, "data:") && u != "about:blank" && !strings.HasPrefix(u, "blob:"+p.root) {
			p.outside = append(p.outside, u)
		}
	case *page.EventJavascriptDialogOpening:
		p.dialogs = append(p.dialogs, e.Message)
	case *runtime.EventExceptionThrown:
		p.messages = append(p.messages, "exception: "+e.ExceptionDetails.Text)
	}
}

// check fails the test for whatever the page should not have done.
func (p *tab) check() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.outside {
		p.t.Errorf("a request left the broker: %s", u)
	}
	for _, m := range p.messages {
		p.t.Errorf("the page said: %s", m)
	}
	for _, d := range p.dialogs {
		p.t.Errorf("a script ran: alert(%q)", d)
	}
}

// forgive drops what the page has said so far, after a failure that the test
// provoked: a browser logs each refused request.
func (p *tab) forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = nil
}

func (p *tab) goTo(path string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(p.root+path)); err != nil {
		p.t.Fatalf("open %s: %v", path, err)
	}
}

// wait until a JavaScript expression is true.
func (p *tab) wait(expression string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(stepTimeout)))
	if err != nil {
		p.shoot("failed")
		p.t.Fatalf("waiting for %s: %v\npage: %.3000s\nsaid: %q", expression, err, p.text("body"), p.messages)
	}
}

// has waits until the page's text holds s.
func (p *tab) has(s string) {
	p.t.Helper()
	p.wait("document.body.innerText.includes(" + quote(s) + ")")
}

func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text of the first element that selector finds, "" without one.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, "document.querySelector("+quote(selector)+")?.textContent ?? ''")
}

// click with the mouse on the first element that selector finds.
func (p *tab) click(selector string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		p.t.Fatalf("click %s: %v\npage: %.3000s", selector, err, p.text("body"))
	}
}

// clickText clicks the first element of a kind with this text.
func (p *tab) clickText(kind, text string) {
	p.t.Helper()
	const mark = "data-test-target"
	find := fmt.Sprintf(`[...document.querySelectorAll(%s)].find((e) => e.textContent.trim() === %s)`, quote(kind), quote(text))
	p.wait(find)
	eval[bool](p, fmt.Sprintf(`document.querySelectorAll("[%s]").forEach((e) => e.removeAttribute("%s")), %s.setAttribute("%s", ""), true`, mark, mark, find, mark))
	p.click("[" + mark + "]")
}

// fill sets a field as typing would.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.wait("document.querySelector(" + quote(selector) + ")")
	eval[bool](p, fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		const kind = { TEXTAREA: HTMLTextAreaElement, SELECT: HTMLSelectElement }[e.tagName] || HTMLInputElement;
		Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(e, %s);
		e.dispatchEvent(new Event("input", { bubbles: true }));
		e.dispatchEvent(new Event("change", { bubbles: true }));
		e.dispatchEvent(new FocusEvent("focusout", { bubbles: true })); // Swagger UI waits for a pause, or for this
		return true;
	})()`, quote(selector), quote(text)))
}

// shoot keeps a picture when SCREENSHOTS names a folder.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	must(p.t, err)
	must(p.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
}

func quote(s string) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSpace(out.String())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
