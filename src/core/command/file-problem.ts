// Plain-English texts for file errors, in place of errno codes.

const words: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({
    ENOENT: 'there is no such file or folder',
    ENOTDIR: 'a part of the path is a file, not a folder',
    EISDIR: 'it is a folder',
    EACCES: 'permission denied',
    EPERM: 'permission denied',
    EEXIST: 'it exists already',
    ENOSPC: 'the disk is full',
    EROFS: 'the disk is read-only',
    ENAMETOOLONG: 'the path is too long',
  }),
);

export function fileProblem(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return (code === undefined ? undefined : words.get(code)) ?? message;
}
