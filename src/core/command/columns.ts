// Aligns text in columns, and makes text safe to show in a terminal.

/** Each column is as wide as its widest cell plus three spaces, as in kubectl. */
export function renderColumns(rows: readonly (readonly string[])[]): string {
  const widths = columnWidths(rows);
  return rows.map((row) => renderRow(row, widths)).join('\n');
}

export function columnWidths(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, displayWidth(cell));
    }
  }
  return widths;
}

export function renderRow(row: readonly string[], widths: readonly number[]): string {
  return row
    .map((cell, column) => {
      if (column === row.length - 1) return cell;
      const gap = Math.max(0, (widths[column] ?? 0) - displayWidth(cell));
      return `${cell}${' '.repeat(gap)}   `;
    })
    .join('')
    .trimEnd();
}

const graphemes = new Intl.Segmenter();

function displayWidth(text: string): number {
  // Most cells are ASCII, where a letter is a column.
  return /^[\x20-\x7e]*$/.test(text) ? text.length : [...graphemes.segment(text)].length;
}

/**
 * Replaces control characters in text from a site, so that it cannot move the cursor or change the
 * colours of a terminal. With `singleLine`, newlines and tabs become spaces.
 */
export function printable(text: string, singleLine = true): string {
  // oxlint-disable-next-line no-control-regex -- these are what is replaced
  const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
  const clean = text.replaceAll(control, '�');
  return singleLine ? clean.replaceAll(/[\n\t]/g, ' ') : clean;
}
