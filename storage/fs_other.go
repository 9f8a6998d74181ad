//go:build !linux

package storage

func (f osFile) writeAt(bufs [][]byte, off int64) (int, error) {
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

func (f osFile) sync() error { return f.Sync() }

// dropCache does nothing: there is no portable way.
func (f osFile) dropCache(int64, int64) error { return nil }
