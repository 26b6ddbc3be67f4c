package embedded

import (
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fuse is a file system that lets nothing be written once the engine has
// failed. Pebble repeats a flush whose write or sync went wrong, but what a
// sync that failed has lost the next one does not bring back: only a new
// opening, from what the disk has, is safe.
type fuse struct {
	vfs.FS
	blown func() error
}

func (f fuse) file(open func() (vfs.File, error)) (vfs.File, error) {
	if err := f.blown(); err != nil {
		return nil, err
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	return fuseFile{file, f.blown}, nil
}

func (f fuse) change(do func() error) error {
	if err := f.blown(); err != nil {
		return err
	}
	return do()
}

func (f fuse) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f fuse) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

func (f fuse) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
}

func (f fuse) OpenDir(name string) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

func (f fuse) Link(old, name string) error {
	return f.change(func() error { return f.FS.Link(old, name) })
}

func (f fuse) Rename(old, name string) error {
	return f.change(func() error { return f.FS.Rename(old, name) })
}

func (f fuse) Remove(name string) error {
	return f.change(func() error { return f.FS.Remove(name) })
}

func (f fuse) RemoveAll(name string) error {
	return f.change(func() error { return f.FS.RemoveAll(name) })
}

func (f fuse) MkdirAll(dir string, perm os.FileMode) error {
	return f.change(func() error { return f.FS.MkdirAll(dir, perm) })
}

func (f fuse) Unwrap() vfs.FS { return f.FS }

// fuseFile is a file behind the fuse.
type fuseFile struct {
	vfs.File
	blown func() error
}

func (f fuseFile) Write(p []byte) (int, error) {
	if err := f.blown(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f fuseFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.blown(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

func (f fuseFile) Sync() error {
	if err := f.blown(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f fuseFile) SyncData() error {
	if err := f.blown(); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f fuseFile) SyncTo(length int64) (fullSync bool, err error) {
	if err := f.blown(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}
