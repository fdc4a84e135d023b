// What a screen reader is told of changes that nobody's focus is at.

class Announcements {
  text = $state("");

  say(text: string): void {
    this.text = text;
  }
}

export const announcements = new Announcements();
