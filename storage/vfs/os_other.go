//go:build !linux

package vfs

func (f osFile) WriteBuffers(bufs [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range bufs {
		n, err := f.WriteAt(b, off+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (f osFile) Sync() error { return f.File.Sync() }

// DropCache does nothing: there is no portable way.
func (f osFile) DropCache(int64, int64) error { return nil }
