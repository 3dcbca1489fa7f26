// What went wrong with a file, in words: people should not have to know errno.

const words: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({
    ENOENT: 'there is no such file or folder',
    ENOTDIR: 'a part of the path is a file, not a folder',
    EISDIR: 'it is a folder',
    EACCES: 'you have no right to it',
    EPERM: 'you have no right to it',
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
