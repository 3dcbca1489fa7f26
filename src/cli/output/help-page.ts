// The layout of every help page: a command shows its own options. `hansa --help` lists the global ones.

import { type Command, Help } from 'commander';

/** Stands for the global options on the help page of every command but `hansa` itself. */
const globalOptionsLine = 'Global options (--data-dir, --site, --yes and others): hansa --help';

export function formatHelp(command: Command, helper: Help): string {
  const text = Help.prototype.formatHelp.call(helper, command, helper);
  return command.parent === null ? text : `${text}\n${globalOptionsLine}\n`;
}

/** For a page that holds the help of many commands, and says this once itself. */
export function withoutGlobalOptionsLine(page: string): string {
  return page.replace(`\n${globalOptionsLine}\n`, '');
}
