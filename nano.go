package evalstream

// Nano is a number in units of 1e-9.
type Nano int64
