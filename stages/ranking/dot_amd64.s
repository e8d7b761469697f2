#include "textflag.h"

// func dotLanes(row, a, b, c, d *float32, n int, sums *[4][4]float32)
TEXT ·dotLanes(SB), NOSPLIT, $0-56
	MOVQ row+0(FP), SI
	MOVQ a+8(FP), R8
	MOVQ b+16(FP), R9
	MOVQ c+24(FP), R10
	MOVQ d+32(FP), R11
	MOVQ n+40(FP), CX
	MOVQ sums+48(FP), DI
	XORPS X0, X0
	XORPS X1, X1
	XORPS X2, X2
	XORPS X3, X3
	XORQ AX, AX
	JMP  check

next:
	MOVUPS (SI)(AX*4), X4
	MOVUPS (R8)(AX*4), X5
	MOVUPS (R9)(AX*4), X6
	MOVUPS (R10)(AX*4), X7
	MOVUPS (R11)(AX*4), X8
	MULPS  X4, X5
	MULPS  X4, X6
	MULPS  X4, X7
	MULPS  X4, X8
	ADDPS  X5, X0
	ADDPS  X6, X1
	ADDPS  X7, X2
	ADDPS  X8, X3
	ADDQ   $4, AX

check:
	CMPQ AX, CX
	JLT  next

	MOVUPS X0, (DI)
	MOVUPS X1, 16(DI)
	MOVUPS X2, 32(DI)
	MOVUPS X3, 48(DI)
	RET
