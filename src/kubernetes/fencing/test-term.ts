// Test fixture: a term that does not end by itself.

import type { WritingTerm } from './fenced-writer.ts';

export const termOf = (epoch: number): WritingTerm => ({ epoch, mayWrite: () => true });
