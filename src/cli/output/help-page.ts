// The layout of help pages: a command lists only its own options, and `hansa --help` the global ones.

import { type Command, Help } from 'commander';

/** Replaces the list of global options on every help page except that of `hansa`. */
const globalOptionsLine = 'Global options (--data-dir, --site, --yes and others): hansa --help';

export function formatHelp(command: Command, helper: Help): string {
  const text = Help.prototype.formatHelp.call(helper, command, helper);
  return command.parent === null ? text : `${text}\n${globalOptionsLine}\n`;
}

/** For the reference page, which mentions the global options once at its top. */
export function withoutGlobalOptionsLine(page: string): string {
  return page.replace(`\n${globalOptionsLine}\n`, '');
}
