// Command ndjson-events prints made-up but real-looking events, one native record
// a line, for tests and benchmarks: web shop and sensor events with nested
// objects, Unicode and numbers that a float64 can't hold. The same seed gives the
// same bytes.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
)

func main() {
	size := flag.Int64("bytes", 1<<20, "stop at the first line end at or above this many bytes")
	seed := flag.Uint64("seed", 1, "of the generator")
	flag.Parse()
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := write(out, *size, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "ndjson-events:", err)
		os.Exit(1)
	}
}

func write(out *bufio.Writer, size int64, seed uint64) error {
	g := generator{rnd: rand.New(rand.NewPCG(seed, 0)), time: 1764424000000}
	for written := int64(0); written < size; {
		line := g.line()
		if _, err := out.Write(line); err != nil {
			return err
		}
		written += int64(len(line))
	}
	return out.Flush()
}

type generator struct {
	rnd  *rand.Rand
	time int64 // ms; grows
	n    int64 // lines so far
	buf  []byte
}

// line is the next event, with its line break. It is valid until the next call.
func (g *generator) line() []byte {
	g.n++
	g.time += g.rnd.Int64N(40)
	g.buf = g.buf[:0]
	switch g.rnd.IntN(10) {
	case 0, 1:
		g.order()
	case 2, 3, 4:
		g.reading()
	case 5:
		g.tombstone()
	default:
		g.pageView()
	}
	g.buf = append(g.buf, '\n')
	return g.buf
}

func (g *generator) add(format string, args ...any) { g.buf = fmt.Appendf(g.buf, format, args...) }

func (g *generator) pick(of []string) string { return of[g.rnd.IntN(len(of))] }

func (g *generator) user() string { return "user-" + strconv.Itoa(g.rnd.IntN(5000)) }

func (g *generator) order() {
	g.add(`{"key":"%s","timestamp":%d,"value":{"type":"order.placed","order_id":%d,"customer":{"name":"%s","email":"%s@example.com","vip":%t},"items":[`,
		g.user(), g.time, 1<<53+g.n, g.pick(names()), g.user(), g.rnd.IntN(20) == 0)
	for i := range 1 + g.rnd.IntN(5) {
		if i > 0 {
			g.buf = append(g.buf, ',')
		}
		g.add(`{"sku":"SKU-%05d","title":"%s","quantity":%d,"price":%d.%02d}`, g.rnd.IntN(99999), g.pick(products()), 1+g.rnd.IntN(4), g.rnd.IntN(500), g.rnd.IntN(100))
	}
	g.add(`],"note":%s,"shipping":{"city":"%s","geo":[%.6f,%.6f]}}}`, g.pick(notes()), g.pick(cities()), g.rnd.Float64()*180-90, g.rnd.Float64()*360-180)
}

func (g *generator) reading() {
	sensor := g.rnd.IntN(800)
	g.add(`{"key":"sensor-%d","timestamp":%d,"value":{"type":"reading","sensor":%d,"seq":%d,"celsius":%.2f,"humidity":%.1f,"raw":%de-7,"flags":[%t,%t],"firmware":"2.%d.0"},"headers":[{"key":"site","value":"%s"}]}`,
		sensor, g.time, sensor, g.rnd.Uint64(), g.rnd.Float64()*60-20, g.rnd.Float64()*100, g.rnd.IntN(1e9), g.rnd.IntN(2) == 0, g.rnd.IntN(9) == 0,
		g.rnd.IntN(12), g.pick([]string{"QmVybGlu", "WsO8cmljaA==", "5p2x5Lqs"}))
}

func (g *generator) pageView() {
	g.add(`{"key":"%s","timestamp":%d,"value":{"type":"page.view","url":"https://shop.example.com/%s?ref=%d&utm=<b>","agent":"%s","took_ms":%d,"session":"%016x%016x","consent":null}}`,
		g.user(), g.time, g.pick(paths()), g.rnd.IntN(1000), g.pick(agents()), g.rnd.IntN(3000), g.rnd.Uint64(), g.rnd.Uint64())
}

func (g *generator) tombstone() {
	g.add(`{"key":"%s","timestamp":%d,"value":null}`, g.user(), g.time)
}

func names() []string {
	return []string{"Anna Müller", "José Ñandú", "李小龍", "Søren Ødegård", "Оля Иванова", "Aoife O'Brien", "محمد", "Zoë 🌊 Brandt"}
}

func products() []string {
	return []string{"Kaffeemühle, 230 V", "Rubber boots \\\"Tide\\\"", "雨傘", "Sea chart 1:50 000", "Crème brûlée torch", "LED lamp 5\\u00b0"}
}

func notes() []string {
	return []string{"null", `""`, `"leave at the door"`, `"line one\nline two\ttabbed"`, `"<b>&amp; \u2028 é 😀 \ud83d\ude00"`, `{"gift":true,"wrap":1.0}`}
}

func cities() []string { return []string{"Hamburg", "São Paulo", "Reykjavík", "東京", "Kraków"} }

func paths() []string { return []string{"", "cart", "p/3021/umbrella", "search", "konto/bestellungen"} }

func agents() []string {
	return []string{"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0", "curl/8.5.0", "Highwater-Test/1.0 (\\\\backslash)"}
}
