# A guest of one sector that witnesses what becomes of data.
#
# It writes records, numbered in order, each to its system disk and then to /home's, and says on its serial line which
# are kept: "k0000002a". A record is 16 KiB of one number, so half of one is never taken for a whole one. When it
# starts it goes on behind the last whole record of /home, and says where: "b0000002b". A write that fails is said, too:
# "f0000002a". It hears the power button, as an operating system does. Paced, it writes one record at each tick of the
# clock; else as fast as it can.
        .intel_syntax noprefix
        .code16
        .equ SECTORS, 32
        .equ BUFFER, 0x8000
        .equ SYSTEM, 0x80
        .equ HOME, 0x81
        .equ READ, 0x42
        .equ WRITE, 0x43
        .equ POWER, 0x600                       # where SeaBIOS puts the registers of power management
        .equ BUTTON, 0x100
        .equ SLEEP, 0x2000
        .equ SERIAL, 0x3f8
        .globl _start
_start: cli
        xor ax, ax
        mov ds, ax
        mov es, ax
        mov ss, ax
        mov sp, 0x7c00
        cld
        sti
        mov dx, POWER + 2
        mov ax, BUTTON
        out dx, ax
        in al, 0xa1                             # no interrupt by the button, which is asked for
        or al, 2
        out 0xa1, al
        mov ebp, 1                              # the number

# Behind the last record whose end is there.
seek:   mov word ptr [count], 1
        mov eax, ebp
        shl eax, 5
        add eax, SECTORS - 1
        mov [where], eax
        mov dword ptr [BUFFER], 0
        mov dl, HOME
        mov ah, READ
        call disk
        cmp [BUFFER], ebp
        jne found
        inc ebp
        jmp seek
found:  mov word ptr [count], SECTORS
        mov al, 'b'
        call say

next:   mov dx, POWER
        in ax, dx
        test ax, BUTTON
        jnz off
        .if PACED
        hlt
        .endif
        mov eax, ebp
        mov di, BUFFER
        mov cx, SECTORS * 128
        rep stosd
        shl eax, 5
        mov [where], eax
        mov dl, SYSTEM
        mov ah, WRITE
        call disk
        jc failed
        mov dl, HOME
        mov ah, WRITE
        call disk
        jc failed
        mov al, 'k'
said:   call say
        inc ebp
        jmp next
failed: mov al, 'f'
        jmp said

off:    mov dx, POWER + 4
        mov ax, SLEEP
        out dx, ax
        hlt
        jmp off

disk:   mov al, 0
        mov si, offset packet
        int 0x13
        ret

# The letter in al, the number, and a line's end.
say:    call put
        mov ebx, ebp
        mov cx, 8
digit:  rol ebx, 4
        mov al, bl
        and al, 15
        add al, '0'
        cmp al, '9'
        jbe show
        add al, 'a' - '9' - 1
show:   call put
        loop digit
        mov al, 10
put:    push ax
        mov dx, SERIAL + 5
full:   in al, dx
        test al, 0x20
        jz full
        pop ax
        mov dx, SERIAL
        out dx, al
        ret

packet: .byte 16, 0
count:  .word SECTORS
        .word BUFFER, 0
where:  .long 0, 0
        .org 510
        .word 0xaa55
