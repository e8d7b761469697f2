package main

import "context"

func (s *session) mutate(context.Context) error { return nil }
