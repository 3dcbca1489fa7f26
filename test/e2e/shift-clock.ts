// Loaded into a program before it starts: moves its wall clock by SHIFT_CLOCK_MS. For tests in which days
// pass between two starts.

const shiftMs = Number(process.env['SHIFT_CLOCK_MS'] ?? 0);
const now = Date.now.bind(Date);
Date.now = () => now() + shiftMs;
