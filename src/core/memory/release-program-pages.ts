// Returns memory outside V8's heap that only the start or an earlier load needed: pages of program files
// (Node, its libraries, addons), about 35 MB of an idle process, and free pages of malloc. The former are
// unchanged copies of files, so the kernel reads those that are needed again from its cache.

import { readFileSync } from 'node:fs';
import type { LibraryHandle } from 'koffi';

/** asm-generic/mman-common.h */
const madvDontneed = 4;

export interface Mapping {
  readonly start: bigint;
  readonly bytes: number;
}

/**
 * The mappings in the text of /proc/self/smaps that hold nothing but the content of a file: readable,
 * not writable, of a file, and without a page of their own. Others hold data that is nowhere else, such as
 * addresses that the loader has filled in.
 */
export function programMappings(smaps: string): readonly Mapping[] {
  return smaps.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).flatMap((text) => {
    const head = /^([0-9a-f]+)-([0-9a-f]+) r-[x-]p [0-9a-f]+ \S+ ([0-9]+) +\/\S/.exec(text);
    if (head === null) return [];
    const [, from = '', to = '', inode] = head;
    if (inode === '0') return [];
    const unchanged = ['Private_Dirty', 'Shared_Dirty', 'Anonymous', 'Locked'].every((field) =>
      new RegExp(`^${field}: +0 kB$`, 'm').test(text),
    );
    if (!unchanged) return [];
    const start = BigInt(`0x${from}`);
    return [{ start, bytes: Number(BigInt(`0x${to}`) - start) }];
  });
}

/** Takes a few milliseconds. Does nothing where /proc is not there. */
export async function releaseProgramPages(): Promise<void> {
  const { default: koffi } = await import('koffi');
  // The C library that Node itself is linked with.
  const libc = koffi.load(null);
  trim(libc);
  const madvise = libc.func('int madvise(uintptr_t start, size_t bytes, int advice)') as (
    start: bigint,
    bytes: number,
    advice: number,
  ) => number;
  let smaps: string;
  try {
    smaps = readFileSync('/proc/self/smaps', 'utf8');
  } catch {
    return;
  }
  for (const { start, bytes } of programMappings(smaps)) madvise(start, bytes, madvDontneed);
}

/** glibc keeps freed pages between used ones until it is told to return them. Other libraries have no such call. */
function trim(libc: LibraryHandle): void {
  try {
    (libc.func('int malloc_trim(size_t kept)') as (kept: number) => number)(0);
  } catch {
    // There is nothing to return.
  }
}
